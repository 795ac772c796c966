"""LiteLLM's `custom_auth`: who holds which key, without a database. LiteLLM imports this file beside its configuration."""

from litellm.proxy._types import UserAPIKeyAuth

TEAMS = {"red-key": "team-red", "blue-key": "team-blue", "blue-batch": "team-blue"}


async def user_api_key_auth(request, api_key: str) -> UserAPIKeyAuth:
    if api_key not in TEAMS:
        raise Exception("no such key")
    return UserAPIKeyAuth(api_key=api_key, team_id=TEAMS[api_key], team_alias=TEAMS[api_key], user_id=f"{api_key}-user")

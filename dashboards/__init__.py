"""Reads attributed tables and shows them. Computes no money."""

"""What is read from the attributed tables for people: `report` and `status`."""

"""The contract: names, units and shapes. Imports nothing of ours and does no IO."""

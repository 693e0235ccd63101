"""The machine: memory, operations, warps, schedules and launches."""

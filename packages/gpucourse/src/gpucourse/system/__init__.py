"""Access to the operating system: files, memory, processors, and the device."""

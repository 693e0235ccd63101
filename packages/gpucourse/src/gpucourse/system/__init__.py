"""Resources of the operating system: files, memory, processors, and the device."""

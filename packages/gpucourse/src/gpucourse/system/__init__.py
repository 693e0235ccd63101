"""What the operating system gives: files, memory, processors, and the device that answers."""

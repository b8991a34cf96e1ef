"""Neural kernel networks (METHODS 6): the kernel as a small network whose every unit is a kernel."""

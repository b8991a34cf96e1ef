"""What was learned here, in other libraries, and their kernels here; each library is imported when it is asked for."""

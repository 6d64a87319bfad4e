// Stands for a library of CUDA where a device of tests needs nothing of it.

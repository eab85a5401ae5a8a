"""What the benches and the simulator share; neither imports the other for it."""

"""Pictures of what a kernel did, drawn from the arrays that the kernel wrote."""

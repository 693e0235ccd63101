"""From a submitted file to a notebook that is safe to grade."""

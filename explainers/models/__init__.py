"""Models: what is known of them, how they are loaded and how photos are made into their input."""

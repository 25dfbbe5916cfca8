"""Settings of disks: read them, set them, record them in a journal, restore them."""

"""The two wave engines against each other: the reference, and translated code of every width and tier."""

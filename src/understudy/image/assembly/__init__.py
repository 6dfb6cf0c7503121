"""Assembly files as compilers write them (GNU directives), assembled and linked at once: the source is the program."""

"""The semantics of image operations: resources, texels, filtering."""

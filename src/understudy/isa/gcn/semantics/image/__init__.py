"""What image operations do: resources, texels, filtering."""

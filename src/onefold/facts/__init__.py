"""What is known about a fit: measures, what scores mean, columns that tell too much; and their words."""

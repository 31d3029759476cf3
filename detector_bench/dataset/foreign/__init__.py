"""Files as other people's programs write them: tables of any make, names of images, texts inside of images."""

"""What a robot and a person see: cameras, viewport and lidar, and how their images are drawn."""

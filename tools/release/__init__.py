"""What a release of the model needs: its card, and what packing it costs."""

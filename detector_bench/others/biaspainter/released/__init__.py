"""What BiasPainter's authors released, beside what their papers print."""

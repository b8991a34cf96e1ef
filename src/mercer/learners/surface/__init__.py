"""Learning where one behaviour gives way to another: change points and change surfaces."""

"""The process: one overlay node and one runtime on real sockets, files and clocks."""

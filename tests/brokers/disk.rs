//! Full disk.

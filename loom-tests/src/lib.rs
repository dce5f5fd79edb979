//! The models live in `tests/`, one file per handshake.

//! HTTP/1.1 bytes.

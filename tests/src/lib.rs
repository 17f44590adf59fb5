//! Harness of the end-to-end scenarios.

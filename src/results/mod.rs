//! The results store.

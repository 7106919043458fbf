//! No code: this crate makes every selection of packages share its compiled dependencies (see its `Cargo.toml`).

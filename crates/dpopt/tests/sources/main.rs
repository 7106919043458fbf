//! What the sources are held to, by reading them: layers, lengths, the size of the trusted core, what is public, what is tracked, what ships, that messages name
//! no flag, that no word comes back that went, that no test reads a folder outside of the repository.

mod ignored_tests;
mod layers;
mod no_flags;
mod own_data;
mod public_api;
mod reader;
mod short_functions;
mod tracked_files;
mod trusted_core;
mod vocabulary;
mod what_ships;

//! What the sources are held to, by reading them: layers, lengths, the size of the trusted core, what is tracked, what ships.

mod ignored_tests;
mod layers;
mod reader;
mod short_functions;
mod tracked_files;
mod trusted_core;
mod what_ships;

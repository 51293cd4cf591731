//! The decision, on hand-made traffic: what must be seen, what must stay silent.

mod causes;
mod garbage;
mod protected;
mod quiet;
mod stampedes;
mod traffic;
mod twitter;

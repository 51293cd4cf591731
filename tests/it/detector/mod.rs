//! The decision, on hand-made traffic: what must be seen, what must stay silent.

mod causes;
mod garbage;
mod quiet;
mod shared_loads;
mod stampedes;
mod traffic;
mod twitter;

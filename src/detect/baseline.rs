//! What is normal: the miss ratio, its dispersion and its wander.

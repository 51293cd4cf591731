//! The one integration binary. Each module is one boundary of the product.

// Helpers: real servers, real processes, waiting for conditions.
mod support;

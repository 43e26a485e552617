//! Filters: which keys a table certainly does not hold.

//! A folder (or an embedded copy of one) becomes verified, named, typed tensors.

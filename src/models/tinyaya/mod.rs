//! TinyAya (rumik-oss-1).

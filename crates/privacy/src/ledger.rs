//! A budget kept in a file across runs on the same data set: charge first, release after.

//! How frames get from one device to another: in-process links and Linux interfaces behind one trait.

//! Workloads, histograms and reports.

"""StatisticsGen, which sums up small data without Beam."""

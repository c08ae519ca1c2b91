import unittest

import figures


def steady_reads(per_second):
    """Reads so many each second, as a growing count."""
    grown, total = [(0.0, 0)], 0
    for second, reads in enumerate(per_second, 1):
        total += reads
        grown.append((float(second), total))
    return grown


class Figures(unittest.TestCase):
    def test_several_loads_are_one(self):
        one = [(1.1, 1.0, 100.0), (2.1, 2.0, 200.0), (3.1, 3.0, 1.0)]
        other = [(1.2, 1.0, 10.0), (2.0, 2.0, 20.0)]
        self.assertEqual(figures.add_seconds([one, other]), [(1.2, 110), (2.1, 220)])
        self.assertEqual(figures.add_seconds([]), [])

    def test_progress_of_every_version_is_read_and_nothing_else(self):
        self.assertEqual(figures.parse_progress("progress: 2.0 s, 523.9 tps, lat 7.528 ms stddev 24.786, 0 failed"), (2.0, 523.9))
        self.assertEqual(figures.parse_progress("progress: 10.0 s, 0.0 tps, lat -nan ms stddev -nan"), (10.0, 0.0))
        self.assertIsNone(figures.parse_progress("pgbench (15.18)"))

    def test_seconds_are_counted_by_pgbench_and_dated_by_their_arrival(self):
        told = [(1.3, 1.0, 100.0), (2.4, 2.1, 50.0)]
        seconds = figures.count_transactions(told)
        self.assertEqual(seconds, [(1.3, 100), (2.4, 55)])
        self.assertEqual(figures.count_served(seconds, 1.3), 100)
        self.assertEqual(figures.count_served(seconds, 1.85), 128)
        self.assertEqual(figures.count_served(seconds, 9.0), 155)

    def test_half_is_of_the_time_that_a_second_took(self):
        seconds = [(1.0, 10), (3.0, 90), (4.0, 50)]
        self.assertEqual(figures.find_half(seconds, 100), 4.0)
        self.assertIsNone(figures.find_half(seconds, 200))

    def test_warm_is_when_hardly_a_transaction_reads_to_the_end(self):
        seconds = [(float(second), 1000) for second in range(1, 9)]
        self.assertEqual(figures.find_warm(seconds, steady_reads([3000, 3000, 900, 0, 0, 0, 0, 0])), 3.0)
        # A few reads of a background are within 1 %, and many at the end are not.
        self.assertEqual(figures.find_warm(seconds, steady_reads([3000, 0, 5, 0, 5, 0, 0, 5])), 1.0)
        self.assertIsNone(figures.find_warm(seconds, steady_reads([3000, 0, 0, 0, 0, 0, 0, 500])))
        self.assertEqual(figures.find_warm(seconds, steady_reads([0] * 8)), 0.0)
        self.assertIsNone(figures.find_warm(seconds[:2], steady_reads([0, 0])))
        # Within the last cold second it is the last tenth with reads.
        tenths = [(tenth / 10, 300 * min(tenth, 24)) for tenth in range(81)]
        self.assertEqual(figures.find_warm(seconds, tenths), 2.4)
        # A server that serves nothing is not warm, however little is read.
        stalled = [(float(second), 0) for second in range(1, 9)]
        self.assertIsNone(figures.find_warm(stalled, steady_reads([0] * 8)))

    def test_the_least_second_is_beside_the_same_second(self):
        nothing = [(1.0, 100), (2.0, 0), (3.0, 200)]
        self.assertEqual(figures.find_least([(1.0, 90), (2.0, 5), (3.0, 60)], nothing), (0.3, 3))
        self.assertIsNone(figures.find_least([], nothing))

    def test_the_bound_reads_over_gaps_where_that_is_less(self):
        # Two ranges with a hole of one page, and a third far away.
        one = b"\x01\x00\x01" + b"\x00" * 97 + b"\x01"
        self.assertEqual(figures.find_ranges(one), [(0, 1), (2, 1), (100, 1)])
        # 3 reads at 1/s, 2 reads and 4 pages, or 1 read and 101 pages at 50 pages/s.
        self.assertEqual(figures.compute_bound([one], 1, 1, 50), 2.0)
        # As many reads as one likes: only the pages count.
        self.assertEqual(figures.compute_bound([one, one], 1, 1e9, 2), 3.0)

    def test_a_round_that_never_got_there_is_longer_than_all_others(self):
        self.assertEqual(figures.render_median([3.0, 1.0, 2.0]), "2.0 (1.0 - 3.0)")
        self.assertEqual(figures.render_median([3.0, None, None]), "> 3.0 (3.0 - > 3.0)")
        self.assertEqual(figures.render_median([None]), "-")

    def test_a_table_has_its_columns_under_their_heads(self):
        table = figures.render_table(["warmer", "s"], [["cat", "16.0"], ["nothing", "-"]])
        self.assertEqual(table, "warmer      s\ncat      16.0\nnothing     -")


if __name__ == "__main__":
    unittest.main()

"""Tests of the Python client, against the program named by PLEACH_BIN or found on the path.

    PLEACH_BIN=target/debug/pleach python3 -m unittest discover python
"""

import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import pleach

BINARY = os.environ.get("PLEACH_BIN") or shutil.which("pleach")
SPACE = {"x": {"type": "float", "low": -5, "high": 10}, "n": "int(1, 8)", "opt": {"type": "choice", "values": ["a", "b"]}}
LOSS = {"loss": "min"}


@unittest.skipUnless(BINARY, "set PLEACH_BIN to the program to test the client")
class Client(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name) / "study.db"

    def study(self, **given):
        study = pleach.Study(self.path, **{"space": SPACE, "objectives": LOSS, "method": "random", **given})
        self.addCleanup(study.close)
        return study

    def test_asks_and_tells(self):
        with self.study(seed=7) as study:
            self.assertEqual(study.name, "study")
            self.assertIsNone(study.best)
            trials = study.ask(4)
            self.assertEqual([trial.number for trial in trials], [0, 1, 2, 3])
            for trial in reversed(trials):
                self.assertIsInstance(trial.params["x"], float)
                self.assertIsInstance(trial.params["n"], int)
                self.assertIn(trial.params["opt"], ["a", "b"])
                self.assertEqual(study.tell(trial, loss=trial.params["x"] ** 2, other=1, cost=2.5), "done")
            best = min(trials, key=lambda trial: trial.params["x"] ** 2)
            self.assertEqual(study.best["number"], best.number)
            self.assertEqual(study.best["params"], best.params)
            self.assertEqual(study.best["metrics"]["loss"], best.params["x"] ** 2)
            self.assertTrue(study.best["feasible"])
            self.assertEqual(study.progress["counts"], {"done": 4})

    def test_a_closed_study_continues(self):
        with self.study(seed=3) as study:
            straight = [study.ask()[0] for _ in range(4)]
            study.tell(straight[0], loss=1)
        with pleach.Study(self.path) as again:
            asked = again.ask(4)
            self.assertEqual([trial.number for trial in asked], [1, 2, 3, 4])
            self.assertEqual([(t.number, t.seed, t.params) for t in asked[:3]],
                             [(t.number, t.seed, t.params) for t in straight[1:]])
            self.assertEqual([trial.attempt - straight[1].attempt for trial in asked], [1, 1, 1, 0])
            self.assertEqual(again.progress["trials"], 5)

    def test_outcomes_without_a_value(self):
        with self.study() as study:
            a, b, c, d, e = study.ask(5)
            self.assertEqual(study.tell(a, loss=math.nan), "failed")
            self.assertEqual(study.tell(b, loss=-math.inf), "failed")
            self.assertEqual(study.tell(c, status="infeasible", reason="too wide"), "infeasible")
            self.assertEqual(study.tell(d, status="failed", reason="exploded"), "failed")
            study.tell(e, status="retry")
            (again,) = study.ask()
            self.assertEqual((again.number, again.params), (e.number, e.params))

    def test_optimize_counts_trials_of_the_study_and_survives_errors(self):
        def function(trial):
            if trial.number == 2:
                raise ValueError("no such luck")
            return {"loss": trial.params["n"]} if trial.number % 2 else trial.params["n"]

        with self.study() as study:
            best = study.optimize(function, trials=10)
            self.assertEqual(study.progress["counts"], {"done": 9, "failed": 1})
            self.assertEqual(best, study.best)
            self.assertEqual(study.optimize(function, trials=10), best)

    def test_enqueued_points_come_first_and_reports_go_on(self):
        with self.study() as study:
            number = study.enqueue(x=0.1, n=3, opt="b")
            (trial,) = study.ask()
            self.assertEqual((trial.number, trial.params), (number, {"x": 0.1, "n": 3, "opt": "b"}))
            self.assertIs(study.report(trial, 1, loss=2.0), True)
            study.tell(trial, 0.5)
            self.assertEqual(study.best["value"], 0.5)

    def test_limits_and_the_end_of_a_space(self):
        space = {"opt": {"type": "choice", "values": ["a", "b", "c"]}}
        with self.study(space=space) as study:
            self.assertEqual(len(study.ask(5, limit=2)), 2)
            self.assertEqual(len(study.ask(5)), 1)
            self.assertEqual(study.ask(5), [])

    def test_errors_say_what_is_wrong_and_the_session_goes_on(self):
        with self.study() as study:
            (trial,) = study.ask()
            for call, expected in [
                (lambda: study.enqueue(x=0.1, n=99, opt="b"), "n = 99"),
                (lambda: study.tell(trial, status="lucky"), "lucky"),
                (lambda: study.tell(trial._replace(number=77), loss=1), "77"),
            ]:
                with self.assertRaisesRegex(pleach.Error, expected):
                    call()
            self.assertEqual(study.tell(trial, loss=1), "done")
        with self.assertRaisesRegex(pleach.Error, "closed"):
            study.ask()

    def test_a_request_that_cannot_be_read_is_an_error(self):
        with self.study() as study:
            with self.assertRaises(pleach.Error):
                study.enqueue(x=10**400)
            self.assertEqual(len(study.ask(1)), 1)

    def test_a_study_that_cannot_be_opened(self):
        with self.assertRaises(pleach.Error):
            pleach.Study(self.path)
        with self.assertRaisesRegex(pleach.Error, "log"):
            self.study(space={"x": "log(0, 1)"})
        self.study().close()
        with self.assertRaises(pleach.Error):
            self.study(space={"y": "float(0, 1)"})
        with self.assertRaisesRegex(pleach.Error, "install pleach or set PLEACH_BIN"):
            self.study(binary=self.folder.name + "/nothing")

    def test_threads_share_a_study(self):
        with self.study() as study:
            worker = lambda: [study.tell(trial, loss=1) for _ in range(20) for trial in study.ask()]
            threads = [threading.Thread(target=worker) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(study.progress["counts"], {"done": 80})

    def test_two_sessions_share_a_study(self):
        with self.study() as a, pleach.Study(self.path) as b:
            numbers = [trial.number for study in (a, b, a, b) for trial in study.ask(3)]
            self.assertEqual(sorted(numbers), list(range(12)))

    def test_killed_in_the_middle(self):
        script = (
            "import pleach, sys\n"
            f"study = pleach.Study({str(self.path)!r}, space={SPACE!r}, objectives={LOSS!r}, method='random')\n"
            "a, b = study.ask(2)\n"
            "study.tell(a, loss=1)\n"
            "print('told', flush=True)\n"
            "sys.stdin.read()\n")
        here = str(pathlib.Path(__file__).parent)
        child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 env={**os.environ, "PYTHONPATH": here})
        self.assertEqual(child.stdout.readline(), b"told\n")
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdin.close()
        child.stdout.close()
        with self.study() as study:
            (trial,) = study.ask()
            self.assertEqual(trial.number, 1)
            self.assertEqual(study.progress["counts"], {"done": 1, "running": 1})

    def test_the_program_dying_is_an_error(self):
        with self.study() as study:
            study._process.kill()
            with self.assertRaisesRegex(pleach.Error, "pleach has ended"):
                study.ask()


if __name__ == "__main__":
    unittest.main()

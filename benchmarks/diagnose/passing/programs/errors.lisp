;;; SPDX-License-Identifier: Apache-2.0
(defun unused (error-code other) (+ error-code undefined-variable))
(defun broken () (undefined-function-here 1))
(handler-case (error "expected failure")
  (error (condition) (format t "debugger invoked on a SIMPLE-ERROR: ~a~%" condition)))
(ignore-errors (/ 1 0))
(handler-case (car 1)
  (type-error (condition) (format t "; caught ERROR: ~a~%" condition)))
(format t "0 tests failed~%")

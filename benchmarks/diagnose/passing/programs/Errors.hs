-- SPDX-License-Identifier: Apache-2.0
module Main where

import Control.Exception
import Data.List (sort)

data Colour = Red | Green

name :: Colour -> String
name Red = "red"

main :: IO ()
main = do
  result <- try (evaluate (1 `div` (0 :: Int))) :: IO (Either ArithException Int)
  putStrLn ("error: " ++ show result)
  failed <- try (readFile "no-such-file") :: IO (Either IOException String)
  either (\e -> putStrLn ("*** Exception: " ++ show e)) putStrLn failed
  broken <- try (evaluate (length (name Green))) :: IO (Either PatternMatchFail Int)
  print broken

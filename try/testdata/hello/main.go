// Command hello is a small program for the test of try.
package main

func main() { println("hello") }

from benchmarks.papers.run import main

main()

module github.com/tenon-numa/tenon

go 1.26.0

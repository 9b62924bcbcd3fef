// objects: what C++ programs do with new and delete: strings, vectors, trees and hash tables, and objects with counted owners, made and destroyed.
// An operation is one round.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

struct node {
	std::shared_ptr<node> left, right;
	std::string name;
};

std::shared_ptr<node> tree(unsigned depth, std::uint64_t &seed)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	auto made = std::make_shared<node>();
	made->name = std::string(1 + (seed >> 59), 'n');
	if (depth > 0) {
		made->left = tree(depth - 1, seed);
		made->right = tree(depth - 1, seed);
	}
	return made;
}

unsigned count(const std::shared_ptr<node> &at)
{
	return at ? 1 + count(at->left) + count(at->right) : 0;
}

}

// The number of what it has made, which the caller knows.
extern "C" std::uint64_t objects_round(std::uint64_t *seed)
{
	std::vector<std::string> words;
	std::map<std::string, std::vector<int>> sorted;
	std::unordered_map<int, std::unique_ptr<std::string>> hashed;
	for (int i = 0; i < 300; i++) {
		*seed = *seed * 6364136223846793005u + 1442695040888963407u;
		words.emplace_back(8 + (*seed >> 57), static_cast<char>('a' + i % 26));
		words.back() += std::to_string(i);
		sorted[words.back()].assign(1 + i % 40, i);
		hashed.emplace(i, std::make_unique<std::string>(words.back()));
	}
	std::sort(words.begin(), words.end());
	for (int i = 0; i < 300; i += 2)
		hashed.erase(i);
	std::vector<double> block((64u << 10) + (*seed >> 48), 1.0);
	auto root = tree(7, *seed);
	return words.size() + sorted.size() + hashed.size() + count(root) + (block.back() == 1.0);
}

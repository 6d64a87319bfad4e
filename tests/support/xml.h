#pragma once

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <set>
#include <sstream>
#include <string>

namespace troupe::test {

/// A page as a tree of its elements. Throws if it is not well-formed XML.
inline boost::property_tree::ptree parse_xml(const std::string& page) {
  std::istringstream in(page);
  boost::property_tree::ptree tree;
  boost::property_tree::read_xml(in, tree);
  return tree;
}

/// Values of an attribute in all elements of a name.
inline std::multiset<std::string> attributes_of(const boost::property_tree::ptree& tree,
                                                const std::string& element,
                                                const std::string& attribute) {
  std::multiset<std::string> values;
  for (const auto& [name, child] : tree) {
    if (name == element)
      if (const auto value = child.get_optional<std::string>("<xmlattr>." + attribute))
        values.insert(*value);
    values.merge(attributes_of(child, element, attribute));
  }
  return values;
}

}  // namespace troupe::test
